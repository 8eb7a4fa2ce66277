"""What is known of complete official files, by folder and name: their MD5, or how many rows they have."""

MD5 = {
    "UCI_Credit_Card.csv": "fba8a8b9af84956920c0349e62ecf8c6",
    "mnist/train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "mnist/train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "mnist/t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "mnist/t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    "fashion_mnist/train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "fashion_mnist/train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "fashion_mnist/t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "fashion_mnist/t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    "cifar10/data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "cifar10/data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "cifar10/data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "cifar10/data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "cifar10/data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "cifar10/test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}

ROWS = {
    "phishing/phishing": 11_055,
    "phishing/phishing.npz": 11_055,
    "uji_indoorloc/trainingData.csv": 19_937,
    "uji_indoorloc/validationData.csv": 1_111,
    "covtype/covtype.data": 581_012,
    "covtype/covtype.libsvm.binary": 581_012,
    "covtype/covtype.libsvm.binary.scale": 581_012,
    "gisette/gisette_scale": 6_000,
    "gisette/gisette_train.data": 6_000,
    "gisette/gisette_train.labels": 6_000,
    "superconduct/train.csv": 21_263,
    "kmnist/train-images-idx3-ubyte": 60_000,
    "kmnist/train-labels-idx1-ubyte": 60_000,
    "kmnist/t10k-images-idx3-ubyte": 10_000,
    "kmnist/t10k-labels-idx1-ubyte": 10_000,
    "movielens_1m/ratings.dat": 1_000_209,
    "movielens_1m/users.dat": 6_040,
    "movielens_1m/movies.dat": 3_883,
    **{
        f"nus_wide/{name}": 161_789 if "Train" in name else 107_859
        for part in ("Train", "Test")
        for name in (
            *(f"{part}_Normalized_{feature}.dat" for feature in ("CH", "CORR", "EDH", "WT", "CM55")),
            f"{part}_Tags1k.dat",
            f"Labels_sky_{part}.txt",
        )
    },
}
