"""What each party of a run could learn, measured on its kept messages."""

from vesica.experiment.audit.audit import ATTACKS, KNOWN, STYLES, Audit, audit, check_choice
from vesica.experiment.audit.findings import Finding
from vesica.experiment.audit.shadows import Shadows, by_shadows
from vesica.experiment.audit.sweep import sweep

__all__ = ["ATTACKS", "KNOWN", "STYLES", "Audit", "Finding", "Shadows", "audit", "by_shadows", "check_choice", "sweep"]
