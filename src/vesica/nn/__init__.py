"""Neural networks, their losses and their augmentations: plain PyTorch, useful without federation."""
