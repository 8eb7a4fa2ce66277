"""Audits of runs that differ in one setting, the seeds of each value together."""

import json
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vesica.errors import InputError
from vesica.privacy.spent import at_most
from vesica.report.findings import Finding, check, findings
from vesica.report.plots import number

Kind = tuple[str, str]  # attack and measure: a panel
Pair = tuple[str, str]  # attacker and owner: a line in it


@dataclass(frozen=True)
class Setting:
    """One strength of the defence: what its runs scored, and what was found in them, the seeds' mean."""

    value: str
    score: float
    proven: str
    runs: int
    found: Mapping[tuple[Kind, Pair], Finding]

    def worst(self, owners: Collection[str]) -> Finding | None:
        """The attack on these that got furthest."""
        on_them = [each for each in self.found.values() if each.owner in owners]
        return max(on_them, key=lambda each: each.learned, default=None)


def metric_of(audits: Sequence[Mapping[str, Any]], field: str) -> str:
    """The one metric of runs that may be compared."""
    if not audits:
        raise InputError(f"there is no audit of a sweep of '{field}' to report; give at least one")
    for audit in audits:
        check(audit)
    alike = {tuple(str(audit["run"].get(name)) for name in ("data", "method")) for audit in audits}
    metrics = {str((audit["run"].get("config") or {}).get("metric")) for audit in audits}
    if len(alike) > 1 or len(metrics) > 1:
        raise InputError(
            f"the audits of the sweep of '{field}' differ in data, method or metric; "
            "give those of one method on one data set"
        )
    return metrics.pop()


def settings_of(audits: Sequence[Mapping[str, Any]], field: str, metric: str) -> list[Setting]:
    """Seeds of one value together, in the order of the values' first audits."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for audit in audits:
        groups.setdefault(_value(audit, field), []).append(audit)
    return [_setting(value, group, metric) for value, group in groups.items()]


def _value(audit: Mapping[str, Any], field: str) -> str:
    method = (audit["run"].get("config") or {}).get("method") or {}
    if "value" not in audit and field not in method:
        raise InputError(
            f"an audited run of '{audit['run'].get('method')}' has no setting '{field}'; name one of its own"
        )
    value = audit["value"] if "value" in audit else method[field]
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value)


def _setting(value: str, audits: Sequence[Mapping[str, Any]], metric: str) -> Setting:
    scores = [score for audit in audits if (score := number(audit["run"], "metrics", metric)) is not None]
    if len(scores) < len(audits):
        raise InputError(f"an audited run at '{value}' has no {metric}; give runs that were scored")
    several: dict[tuple[Kind, Pair], list[Finding]] = {}
    for audit in audits:
        for each in findings(audit):
            several.setdefault(((each.attack, each.measure), (each.attacker, each.owner)), []).append(each)
    found = {key: _mean(group) for key, group in several.items()}
    proven = _proven([audit["run"] for audit in audits])
    return Setting(value, statistics.fmean(scores), proven, len(audits), found)


def _proven(runs: Sequence[Mapping[str, Any]]) -> str:
    """The weakest of the seeds'; nothing if one has none."""
    epsilons = [epsilon for run in runs if (epsilon := number(run, "epsilon")) is not None]
    if len(epsilons) < len(runs):
        return ""
    return f"epsilon {at_most(max(epsilons))}, protects {runs[0].get('protects') or 'records'}"


def _mean(several: Sequence[Finding]) -> Finding:
    """Of one run its own interval; of several seeds one standard deviation either way."""
    if len(several) == 1:
        return several[0]
    value, nothing = (statistics.fmean(getattr(each, name) for each in several) for name in ("value", "nothing"))
    deviation = statistics.stdev(each.value for each in several)
    homes = [each.at_home for each in several if each.at_home is not None]
    bounds = [each.bound for each in several if each.bound is not None]
    return replace(
        several[0],
        value=value,
        low=value - deviation,
        high=value + deviation,
        nothing=nothing,
        at_home=statistics.fmean(homes) if homes else None,
        bound=max(bounds) if len(bounds) == len(several) else None,
    )
