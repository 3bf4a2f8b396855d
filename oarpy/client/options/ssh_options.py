"""Options of commands that stand in for ``ssh``."""

from __future__ import annotations

from typing import Annotated

import typer

NoInput = Annotated[bool, typer.Option("-n", "--no-input", help="Pass no standard input on.")]
AsUsual = Annotated[bool, typer.Option("-x", "-a", "-q", "-T", help="Taken for ssh's sake: so it is anyway.")]
SshSetting = Annotated[
    list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A setting of ssh, without a meaning here.")
]
