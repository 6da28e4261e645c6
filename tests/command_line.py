"""Runs commands in this process."""

import contextlib
import io
from dataclasses import dataclass

from lookup_tool.cli import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        assert self.code == 0, self.err
        return [line.rstrip() for line in self.out.splitlines()]


def run(*arguments: object) -> Ran:
    """Run a command in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())
