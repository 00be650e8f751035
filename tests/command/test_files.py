"""Which files a run reads, and what each is to it."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from auditor.config import Config
from auditor.errors import UserError
from auditor.files import Inventory, Role
from auditor.sources import Skipped, find_files, read
from tests.command.world import git, plant, write

if TYPE_CHECKING:
    from pathlib import Path


def found(here: Path, *paths: str, **config: object) -> Inventory:
    return find_files(paths, Config(str(here)).but(**config), str(here))


def paths_of(inventory: Inventory, role: Role = Role.REPORTED) -> list[str]:
    return [file.path for file in inventory.files if file.role is role]


WALKED = {
    "python and sql are read, other files are not": (
        ["a.py", "b.sql", "c.pyi", "d.txt", "e.PY.bak"],
        ["a.py", "b.sql"],
    ),
    "what tools made is left out": (
        [".venv/a.py", "build/b.py", "node_modules/x/c.py", "x.egg-info/d.py", "__pycache__/e.py", "app/f.py"],
        ["app/f.py"],
    ),
    "an environment is known by its pyvenv.cfg, whatever it is called": (
        ["env/pyvenv.cfg", "env/lib/a.py", "env2/b.py"],
        ["env2/b.py"],
    ),
    "a folder that is named like a module is a folder": (["x.py/y.py", "z.py"], ["x.py/y.py", "z.py"]),
    "odd names are names": (
        ["naïve.py", "new\nline.py", "a:b.py", " space .sql", "日本/語.py", "-q.py"],
        [" space .sql", "-q.py", "a:b.py", "naïve.py", "new\nline.py", "日本/語.py"],
    ),
}


@pytest.mark.parametrize(("planted", "expected"), WALKED.values(), ids=WALKED)
def test_outside_git_the_folder_is_walked(here: Path, planted: list[str], expected: list[str]) -> None:
    plant(here, *planted)
    assert paths_of(found(here)) == expected


@pytest.mark.parametrize(("planted", "expected"), WALKED.values(), ids=WALKED)
def test_inside_git_what_nobody_tracks_is_sifted_the_same_way(
    here: Path, planted: list[str], expected: list[str]
) -> None:
    plant(here, *planted)
    git(here, "init", "-q")
    if "env/pyvenv.cfg" in planted:
        expected = ["env/lib/a.py", *expected]
    assert paths_of(found(here)) == expected


def test_names_that_are_not_unicode_are_read_too(here: Path) -> None:
    (here / os.fsdecode(b"b\xff.py")).write_bytes(b"x = 1\n")
    (file,) = found(here).files
    assert read(file) == b"x = 1\n"


class TestGit:
    def test_what_is_tracked_or_not_ignored_is_read(self, here: Path) -> None:
        plant(here, "kept.py", "ignored/a.py", "build/tracked.py", "gone.py")
        write(here / ".gitignore", "ignored/\n")
        git(here, "init", "-q")
        git(here, "add", "-f", "kept.py", "build/tracked.py", "gone.py")
        plant(here, "untracked.py", "build/untracked.py")
        (here / "gone.py").unlink()
        assert paths_of(found(here)) == ["build/tracked.py", "kept.py", "untracked.py"]

    def test_an_ignored_folder_that_is_named_is_read(self, here: Path) -> None:
        plant(here, "a.py", "ignored/b.py", "ignored/.venv/c.py")
        write(here / ".gitignore", "ignored/\n")
        git(here, "init", "-q")
        inventory = found(here, "ignored")
        assert paths_of(inventory) == ["ignored/b.py"]
        assert paths_of(inventory, Role.CONTEXT) == ["a.py"]

    def test_submodules_and_repositories_inside_are_read_as_git_knows_them(self, here: Path) -> None:
        library = here.parent / "library"
        plant(library, "lib.py", "left/out.py")
        write(library / ".gitignore", "left/\n")
        git(library, "init", "-q")
        git(library, "add", "-A")
        git(library, "commit", "-qm", "begin")
        plant(here, "a.py", "nested/n.py", "nested/out/o.py")
        write(here / "nested/.gitignore", "out/\n")
        git(here, "init", "-q")
        git(here / "nested", "init", "-q")
        git(here, "submodule", "add", "-q", str(library), "vendored")
        plant(here, "vendored/left/out.py")
        assert paths_of(found(here)) == ["a.py", "nested/n.py", "vendored/lib.py"]

    def test_a_submodule_that_is_not_checked_out_is_empty(self, here: Path) -> None:
        library = here.parent / "library"
        plant(library, "lib.py")
        git(library, "init", "-q")
        git(library, "add", "-A")
        git(library, "commit", "-qm", "begin")
        plant(here, "a.py")
        git(here, "init", "-q")
        git(here, "submodule", "add", "-q", str(library), "vendored")
        git(here, "add", "-A")
        git(here, "commit", "-qm", "begin")
        git(here, "submodule", "deinit", "-q", "-f", "vendored")
        assert paths_of(found(here)) == ["a.py"]

    @pytest.mark.parametrize("broken", ["nothing", "not a repository\n"])
    def test_a_broken_repository_is_walked(self, here: Path, broken: str) -> None:
        plant(here, "a.py", ".venv/b.py")
        write(here / ".git", broken)
        assert paths_of(found(here)) == ["a.py"]

    def test_without_a_git_program_the_folder_is_walked(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(here, "a.py", ".venv/b.py")
        git(here, "init", "-q")
        monkeypatch.setenv("PATH", str(here / "nowhere"))
        assert paths_of(found(here)) == ["a.py"]

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
    def test_a_repository_of_somebody_else_is_walked(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(here, "a.py", ".venv/b.py", "ignored/c.py")
        write(here / ".gitignore", "ignored/\n")
        git(here, "init", "-q")
        monkeypatch.setenv("HOME", str(here.parent))  # where nothing says that the folder is safe
        os.chown(here, 12345, 12345)
        os.chown(here / ".git", 12345, 12345)
        assert paths_of(found(here)) == ["a.py", "ignored/c.py"]

    def test_inside_a_hook_the_variables_of_git_lead_nowhere_else(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = here.parent / "other"
        plant(other, "other.py")
        git(other, "init", "-q")
        git(other, "add", "-A")
        plant(here, "a.py")
        git(here, "init", "-q")
        monkeypatch.setenv("GIT_DIR", str(other / ".git"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
        monkeypatch.setenv("GIT_WORK_TREE", str(other))
        assert paths_of(found(here)) == ["a.py"]

    def test_no_program_that_the_repository_names_is_run(self, here: Path) -> None:
        plant(here, "a.py")
        git(here, "init", "-q")
        witness = here.parent / "witness"
        script = write(here.parent / "monitor", f"#!/bin/sh\ntouch {witness}\n")
        script.chmod(0o755)
        git(here, "config", "core.fsmonitor", str(script))
        assert paths_of(found(here)) == ["a.py"]
        assert not witness.exists()

    def test_a_name_in_conflict_is_listed_once(self, here: Path) -> None:
        plant(here, "a.py")
        git(here, "init", "-q", "-b", "one")
        git(here, "add", "-A")
        git(here, "commit", "-qm", "begin")
        git(here, "checkout", "-qb", "two")
        write(here / "a.py", "x = 2\n")
        git(here, "commit", "-qam", "two")
        git(here, "checkout", "-q", "one")
        write(here / "a.py", "x = 3\n")
        git(here, "commit", "-qam", "one")
        with pytest.raises(Exception, match="merge"):
            git(here, "merge", "two")
        assert paths_of(found(here)) == ["a.py"]


class TestRoles:
    def test_code_is_reported_tests_and_the_rest_of_the_project_are_read(self, here: Path) -> None:
        plant(here, "src/app.py", "src/test_app.py", "tests/helper.py", "src/app/tests.py", "migrations/one.sql")
        plant(here, "src/conftest.py", "src/latest.py", "src/contest/a.py", "src/x_test.py", "src/testing/a.py")
        write(here / "pyproject.toml")
        inventory = found(here, "src")
        assert paths_of(inventory) == ["src/app.py", "src/contest/a.py", "src/latest.py"]
        assert paths_of(inventory, Role.CONTEXT) == ["migrations/one.sql"]
        assert paths_of(inventory, Role.TEST) == [
            "src/app/tests.py",
            "src/conftest.py",
            "src/test_app.py",
            "src/testing/a.py",
            "src/x_test.py",
            "tests/helper.py",
        ]

    @pytest.mark.parametrize("named", ["tests", "tests/test_a.py", "tests/", "./tests", "tests/deep"])
    def test_tests_that_are_named_are_reported_on(self, here: Path, named: str) -> None:
        plant(here, "app.py", "tests/test_a.py", "tests/deep/test_b.py")
        write(here / "pyproject.toml")
        inventory = found(here, named)
        assert paths_of(inventory)
        assert all(path.startswith("tests/") for path in paths_of(inventory))

    def test_tests_are_reported_on_when_that_is_asked_for(self, here: Path) -> None:
        plant(here, "app.py", "tests/test_a.py")
        assert paths_of(found(here, include_tests=True)) == ["app.py", "tests/test_a.py"]

    def test_a_project_below_a_folder_of_tests_is_no_test(self, here: Path) -> None:
        project = here / "tests/project"
        plant(project, "app.py")
        write(project / "pyproject.toml")
        assert [file.path for file in find_files([], Config(str(project)), str(project)).files] == ["app.py"]

    def test_one_file_brings_its_project(self, here: Path) -> None:
        plant(here, "app/a.py", "app/b.py", "c.sql")
        write(here / "pyproject.toml")
        inventory = found(here, "app/a.py")
        assert paths_of(inventory) == ["app/a.py"]
        assert paths_of(inventory, Role.CONTEXT) == ["app/b.py", "c.sql"]

    def test_without_a_project_a_file_comes_alone(self, here: Path) -> None:
        plant(here, "a.py", "b.py")
        assert [file.path for file in found(here, "a.py").files] == ["a.py"]

    def test_a_home_folder_is_no_project(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(here, "work/a.py", "other/b.py")
        write(here / "pyproject.toml")
        monkeypatch.setenv("HOME", str(here))
        assert [file.path for file in found(here, "work").files] == ["work/a.py"]

    def test_files_outside_the_working_directory_have_absolute_paths(self, here: Path) -> None:
        plant(here.parent / "elsewhere", "a.py")
        assert [file.path for file in found(here, "../elsewhere").files] == [f"{here.parent}/elsewhere/a.py"]


class TestPaths:
    def test_the_configured_paths_are_read_when_none_are_given(self, here: Path) -> None:
        plant(here, "src/a.py", "other/b.py")
        assert paths_of(found(here, paths=("src",))) == ["src/a.py"]

    def test_given_paths_come_before_configured_ones(self, here: Path) -> None:
        plant(here, "src/a.py", "other/b.py")
        assert paths_of(found(here, "other", paths=("src",))) == ["other/b.py"]

    def test_a_path_that_is_given_twice_is_read_once(self, here: Path) -> None:
        plant(here, "src/a.py")
        assert paths_of(found(here, "src", "./src/", "src/a.py", str(here / "src"))) == ["src/a.py"]

    def test_excluded_files_and_folders_are_left_out(self, here: Path) -> None:
        plant(here, "app/a.py", "app/gen/b.py", "app/x_pb2.py", "old/c.py")
        assert paths_of(found(here, exclude=("gen", "*_pb2.py", "old/"))) == ["app/a.py"]

    def test_what_is_named_is_read_though_it_is_excluded(self, here: Path) -> None:
        plant(here, "app/a.py", "old/c.py", "old/d.py")
        assert paths_of(found(here, "old", exclude=("old",))) == ["old/c.py", "old/d.py"]
        assert paths_of(found(here, "old/c.py", exclude=("old",))) == ["old/c.py"]

    def test_what_tools_made_is_read_when_it_is_named(self, here: Path) -> None:
        plant(here, ".venv/lib/site-packages/library/a.py")
        named = ".venv/lib/site-packages/library"
        assert paths_of(found(here, named)) == [f"{named}/a.py"]

    @pytest.mark.parametrize("missing", ["nowhere", "nowhere.py", "a.py/b.py", "nul\0.py"])
    def test_a_path_that_is_not_there_is_said_so(self, here: Path, missing: str) -> None:
        plant(here, "a.py")
        with pytest.raises(UserError, match="there is no such file or folder"):
            found(here, missing)

    def test_a_configured_path_that_is_not_there_is_said_so(self, here: Path) -> None:
        with pytest.raises(UserError) as caught:
            found(here, paths=("src",))
        assert str(caught.value) == "src: there is no such file or folder; the configuration names it in paths"

    @pytest.mark.parametrize("name", ["empty", "notes.txt"])
    def test_nothing_to_read_is_said_so(self, here: Path, name: str) -> None:
        (here / "empty").mkdir()
        write(here / "notes.txt", "hello")
        with pytest.raises(UserError, match=f"{name}: there is no .py or .sql file to read"):
            found(here, name)


class TestTrouble:
    def test_linked_folders_are_not_entered_and_loops_do_no_harm(self, here: Path) -> None:
        plant(here, "app/a.py")
        (here / "app/loop").symlink_to(here, target_is_directory=True)
        (here / "self").symlink_to("self")
        (here / "ping.py").symlink_to("pong.py")
        (here / "pong.py").symlink_to("ping.py")
        inventory = found(here)
        assert paths_of(inventory) == ["app/a.py"]
        assert inventory.skipped == (
            Skipped("ping.py", "a symbolic link that leads nowhere"),
            Skipped("pong.py", "a symbolic link that leads nowhere"),
        )

    def test_a_linked_file_is_read_where_it_is_not_there_itself(self, here: Path) -> None:
        plant(here, "app/a.py")
        plant(here.parent, "outside.py")
        (here / "same.py").symlink_to("app/a.py")
        (here / "more.py").symlink_to("../outside.py")
        (here / "again.py").symlink_to("../outside.py")
        assert paths_of(found(here)) == ["again.py", "app/a.py"]

    def test_a_linked_folder_that_is_named_is_read(self, here: Path) -> None:
        plant(here.parent / "outside", "a.py")
        (here / "link").symlink_to("../outside")
        assert paths_of(found(here, "link")) == ["link/a.py"]

    def test_what_is_no_regular_file_is_skipped_and_never_waited_for(self, here: Path) -> None:
        plant(here, "a.py")
        os.mkfifo(here / "pipe.py")
        (here / "link.py").symlink_to("pipe.py")
        (here / "gone.py").symlink_to("nowhere.py")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("sock.py")
            inventory = found(here)
        assert paths_of(inventory) == ["a.py"]
        assert inventory.skipped == (
            Skipped("gone.py", "a symbolic link that leads nowhere"),
            Skipped("link.py", "not a regular file"),
            Skipped("pipe.py", "not a regular file"),
            Skipped("sock.py", "not a regular file"),
        )

    def test_a_pipe_that_is_named_is_skipped_too(self, here: Path) -> None:
        plant(here, "a.py")
        os.mkfifo(here / "pipe.py")
        assert found(here, "a.py", "pipe.py").skipped == (Skipped("pipe.py", "not a regular file"),)

    def test_a_file_that_vanishes_is_a_reason(self, here: Path) -> None:
        plant(here, "a.py", "b.py")
        first, second = found(here).files
        (here / "a.py").unlink()
        (here / "b.py").unlink()
        (here / "b.py").mkdir()
        assert read(first) == Skipped("a.py", "no such file or directory")
        assert read(second) == Skipped("b.py", "not a regular file")

    def test_a_folder_that_cannot_be_listed_is_a_reason(self, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(here, "a.py", "locked/b.py")
        scandir = os.scandir

        def refuse(folder: str) -> object:
            if folder.endswith("locked"):
                raise PermissionError(13, "Permission denied", folder)
            return scandir(folder)

        monkeypatch.setattr(os, "scandir", refuse)
        assert found(here).skipped == (Skipped("locked", "permission denied"),)

    def test_a_file_that_is_too_large_to_read_is_a_reason(self, here: Path) -> None:
        plant(here, "a.sql")
        os.truncate(here / "a.sql", 65 * 1024 * 1024)
        (file,) = found(here).files
        assert read(file) == Skipped("a.sql", "larger than 64 MiB")
