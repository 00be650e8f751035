"""Which file an import means, told from where files lie: nothing is imported to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from auditor.files import SourceFile


class ModuleIndex:
    """The Python files of a project by the names under which they can be imported.

    A folder that is no package itself can stand on sys.path; a file is importable by its path from every such folder
    above it. Of several files of one name, the one nearest to the importing file is meant.
    """

    def __init__(self, files: Iterable[SourceFile]) -> None:
        python = [file for file in files if file.language == "python"]
        self._packages = {_folder(file.file) for file in python if _base(file.file) == "__init__.py"}
        self._by_name: dict[str, list[SourceFile]] = {}
        self._names: dict[str, str] = {}
        for file in python:
            names = list(self._names_of(file.file))
            self._names[file.file] = names[0]
            for name in names:
                self._by_name.setdefault(name, []).append(file)

    def name_of(self, file: SourceFile) -> str:
        """The name a file is imported by: the shortest that its packages allow."""
        return self._names[file.file]

    def find(self, name: str, importer: str) -> SourceFile | None:
        """The file that `import name` in the file `importer` means, or None when it is no file of the project."""
        candidates = self._by_name.get(name)
        if not candidates:
            return None
        return max(candidates, key=lambda file: (_shared(file.file, importer), -len(file.file)))

    def _names_of(self, file: str) -> Iterable[str]:
        folder, base = _folder(file), _base(file)
        parts = [] if base == "__init__.py" else [base.removesuffix(".py")]
        if not parts:
            parts, folder = [_base(folder)], _folder(folder)
        while folder in self._packages:
            parts.insert(0, _base(folder))
            folder = _folder(folder)
        yield ".".join(parts)
        # Namespace packages: folders without __init__.py may be a part of the name as well.
        while folder and _base(folder).isidentifier() and len(parts) < 8:
            parts.insert(0, _base(folder))
            folder = _folder(folder)
            # Such a folder may lie in a package, too; then its name begins above that.
            if folder not in self._packages:
                yield ".".join(parts)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _shared(one: str, other: str) -> int:
    """How many leading folders two paths share."""
    count = 0
    for a, b in zip(one.split("/"), other.split("/"), strict=False):
        if a != b:
            break
        count += 1
    return count
