"""What measures and draws does not need what calls it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PACKAGES = ["longtail.evaluate", "longtail.analyse", "longtail.describe"]


@pytest.mark.parametrize("package", PACKAGES)
def test_neither_the_command_line_nor_the_tagger_is_imported(package: str) -> None:
    code = (
        f"import importlib, pkgutil, sys, {package} as package\n"
        "found = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.')]\n"
        "for name in found:\n"
        "    importlib.import_module(name)\n"
        "print(len(found), [n for n in sys.modules if n.startswith(('longtail.cli', 'longtail.tagger'))])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    count, loaded = said.stdout.split(maxsplit=1)
    assert int(count) >= 3 and loaded.strip() == "[]", said.stderr
