"""Print the lowest versions that `pyproject.toml` allows, as constraints for pip."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def floors() -> list[str]:
    """Return `name==version` for every requirement with a lower bound, extras included."""
    extras = PROJECT["optional-dependencies"].values()
    needed = [Requirement(text) for some in (PROJECT["dependencies"], *extras) for text in some]
    return sorted(
        f"{each.name}=={bound.version}"
        for each in needed
        for bound in each.specifier
        if bound.operator == ">="
    )


if __name__ == "__main__":
    print("\n".join(floors()))  # noqa: T201
