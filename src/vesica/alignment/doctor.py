"""Why so few ids are in common: what one party's ids look like beside another's, of which only counts are known."""

from collections.abc import Mapping, Sequence

from vesica.alignment.summary import Summary


def few(size: int, sizes: Mapping[str, int]) -> bool:
    """Whether less than half of the smallest party's ids are in common; that all parties know alike."""
    return 2 * size < min(sizes.values())


def examine(ours: Sequence[Summary], theirs: Sequence[Summary], *, party: str) -> list[str]:
    """Sentences on what may keep our ids from meeting those of another party."""
    hints = []
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), start=1):
        about = f"'{party}', key {number}" if len(ours) > 1 else f"'{party}'"
        hints += [f"{about}: {hint}" for rule in RULES if (hint := rule(mine, other))]
    alike = "the ids look alike on both sides: ask whether they are the same kind of id, and about the same people"
    return hints or [f"'{party}': {alike}"]


def about_spaces(ours: Summary, theirs: Summary) -> str | None:
    counts = [f"{each.spaces:,} of {whose}" for whose, each in (("yours", ours), ("theirs", theirs)) if each.spaces]
    return f"{' and '.join(counts)} have white space around them: use --trim" if counts else None


def about_case(ours: Summary, theirs: Summary) -> str | None:
    mine, others = case_of(ours), case_of(theirs)
    if not mine or not others or mine == others:
        return None
    return f"yours have {mine} letters, theirs have {others} ones: use --case lower"


def case_of(summary: Summary) -> str:
    cases = [word for word, count in (("upper-case", summary.upper), ("lower-case", summary.lower)) if count]
    return " and ".join(cases)


def about_zeros(ours: Summary, theirs: Summary) -> str | None:
    if not lack_zeros(ours, theirs):
        return None
    mine, others = ("with" if each.zeros else "without" for each in (ours, theirs))
    width = max(ours.range[1], theirs.range[1])
    return (
        f"yours have {span(ours)} digits {mine} leading zeros, theirs have {span(theirs)} {others}: use --pad {width}"
    )


def lack_zeros(ours: Summary, theirs: Summary) -> bool:
    """Whether one side's numbers have leading zeros and the other's, of other lengths, have none."""
    numbers = ours.mostly_digits and theirs.mostly_digits
    return numbers and bool(ours.zeros) != bool(theirs.zeros) and ours.range != theirs.range


def about_signs(ours: Summary, theirs: Summary) -> str | None:
    if bool(ours.other) == bool(theirs.other):
        return None
    some, none = ("yours", "theirs") if ours.other else ("theirs", "yours")
    return f"{some} have signs such as dashes or points, {none} have none: write both alike"


def about_alphabets(ours: Summary, theirs: Summary) -> str | None:
    if ours.mostly_digits == theirs.mostly_digits:
        return None
    some, none = ("yours", "theirs") if ours.mostly_digits else ("theirs", "yours")
    return f"{some} are mostly digits alone, {none} are not: these may be different kinds of ids"


def about_lengths(ours: Summary, theirs: Summary) -> str | None:
    apart = ours.range[1] < theirs.range[0] or theirs.range[1] < ours.range[0]
    if not apart or lack_zeros(ours, theirs):
        return None
    return f"yours have {span(ours)} characters, theirs have {span(theirs)}: these may be different kinds of ids"


def about_types(ours: Summary, theirs: Summary) -> str | None:
    same_as_text = {"text", "whole numbers"}
    mine, others = (set(each.types) - same_as_text for each in (ours, theirs))
    if mine == others:
        return None
    kinds = [" and ".join(sorted(each.types)) for each in (ours, theirs)]
    return f"yours are {kinds[0]}, theirs are {kinds[1]}: store both as text, written alike"


def span(summary: Summary) -> str:
    least, most = summary.range
    return str(least) if least == most else f"{least} to {most}"


RULES = (about_spaces, about_case, about_zeros, about_signs, about_alphabets, about_lengths, about_types)
