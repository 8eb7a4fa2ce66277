"""The arguments and options that several commands have, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Of every run.
MethodName = Annotated[str, typer.Argument(help="see `vesica methods`")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="field=value, a hyper-parameter of the method")]
Wire = Annotated[str, typer.Option(help="float32, float16, bfloat16 or int8")]
Device = Annotated[str, typer.Option(help="cpu or cuda")]
MaxRounds = Annotated[int | None, typer.Option(help="refuse what would take more rounds")]
MaxBytes = Annotated[int | None, typer.Option(help="refuse what would take more bytes")]
StopAtBytes = Annotated[
    int | None, typer.Option(help="end end-to-end training where one more batch would take more bytes")
]
KeepMessages = Annotated[bool, typer.Option("--keep-messages", help="keep every message in the run folder")]

# Of what has a result.
DataDir = Annotated[Path | None, typer.Option(help="where the public data sets are [default: $VESICA_DATA]")]
Json = Annotated[str | None, typer.Option("--json", help="write the result as JSON to this file, - for stdout")]
Report = Annotated[Path | None, typer.Option(help="write a report to this HTML file")]

# Of a run between organisations.
SecretSeed = Annotated[int | None, typer.Option(help="for tests only: whoever knows it can read labels off")]
HostsJson = Annotated[
    str | None, typer.Option("--json", help="the host's: write the result as JSON to this file, - for stdout")
]
HostsReport = Annotated[Path | None, typer.Option(help="the host's: write a report to this HTML file")]

# Of every alignment.
Trim = Annotated[bool | None, typer.Option("--trim/--no-trim", help="leave out white space around ids")]
Case = Annotated[str | None, typer.Option(help="keep, lower or upper")]
Pad = Annotated[int | None, typer.Option(help="zeros in front of ids, up to this width")]
Duplicates = Annotated[str, typer.Option(help="rows that repeat an id: refuse, or take the first")]
Cardinality = Annotated[bool, typer.Option("--cardinality", help="find only how many ids are common")]
Doctor = Annotated[
    bool, typer.Option("--doctor", help="if few are common: tell the others what one's ids look like, and why")
]
Workers = Annotated[int | None, typer.Option(help="processes [default: one a core]")]

# By post.
KnownFederation = Annotated[Path, typer.Argument(help="federation.toml; of the other parties their names are enough")]
Desk = Annotated[Path, typer.Option(help="this party's desk")]
OneDesk = Annotated[Path, typer.Argument(help="this party's desk")]

# Over NVFlare.
PreparedFolder = Annotated[Path, typer.Argument(help="this party's prepared folder")]
Liveness = Annotated[float, typer.Option(min=1, help="seconds without a sign of life, after which whoever waits stops")]
Arrive = Annotated[float, typer.Option(min=1, help="seconds that the others have to come at the start")]
