"""The words of an audit that a reader may not know, a line each."""

from collections.abc import Mapping
from html import escape

WORDS: Mapping[str, str] = {
    "95 % interval": "where the figure would mostly lie if other rows of the same kind had been drawn.",
    "AUC": "given one row of each of two kinds, how often the attack tells which is which: 0.5 is a coin, 1 is always.",
    "purity": "the attacker sorts rows into groups: the share of rows that are in a group mostly of their own class.",
    "mean recall": "the same groups, one for each class: the share of a class in its own group, averaged over classes, "
    "so that a rare class counts as much as a common one.",
    "accuracy": "the share of rows guessed right.",
    "share that came back": "of each column, 0 is guessing its mean or its commonest category and 1 is every value "
    "exactly; averaged over the columns.",
    "true-positive rate": "of the rows trained on, the share that is recognised while only 1 % (or 0.1 %) of the "
    "other rows are taken for such by mistake: an attacker who is sure of a few people does harm already.",
    "aligned row": "a row, such as a person, that every party has.",
    "encoder": "a party's own part of the model: it makes a few numbers of a row's columns.",
    "representations": "those numbers, sent in place of the columns.",
    "gradients": "numbers sent back for a row: how its representation should change for a better prediction.",
    "agreement": "what the parties settle before they begin: task, parties, settings, and which rows are for what.",
    "request": "the host asks for the representations of rows.",
    "verdict": "the host says whether training goes on.",
    "k-means": "sorts rows into groups that are alike, without knowing any label.",
    "model completion": "a party adds a last layer to its part of the model and trains it with the labels it knows.",
    "inverse of": "a model, trained on rows known in full, that turns what was sent of a row back into its columns.",
    "threshold on the loss": "rows that the model predicts better than others are taken for rows it was trained on.",
    "shadow": "models that the attacker trains itself, with and without a row, to see what a row's presence changes.",
    "differential privacy": "a promise about every attack there is, known today or not: what is sent hardly depends "
    "on the one thing in which neighbours differ.",
    "epsilon": "how weak that promise is: the odds of anything seen change by a factor of at most e to the epsilon "
    "(2.7 for 1, 55 for 4, 2,981 for 8).",
    "delta": "the small chance left out of that promise.",
    "neighbours": "two data sets that are to look alike to an attacker; what they differ in is what is protected.",
    "randomised response": "every label is swapped for a random one with a known chance before it is used.",
}


def glossary(page: str) -> str:
    """HTML: the words that occur on the page."""
    text = page.lower()
    used = [(word, meaning) for word, meaning in WORDS.items() if word.lower() in text]
    lines = "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in used)
    return f"<dl>{lines}</dl>" if used else ""
