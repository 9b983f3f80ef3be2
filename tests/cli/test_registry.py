"""Commands are found in the sources, listed without being imported, and imported when they run."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from specsim.cli.main import FOLDER, command_texts, import_command, main

NAMES = ["bench", "campaign", "check", "env", "list", "matrix", "mutants", "replay", "rules", "show", "simulate"]
NAMES += ["soak", "sweep", "tune", "vectors"]


FRAGMENTS = ("Also", "As", "For", "How", "If", "Of", "That", "What", "When", "Where", "Whether", "Who", "With")
"""Words that begin a part of a sentence."""


def test_every_module_that_defines_a_command_of_its_name_is_listed():
    assert list(command_texts()) == NAMES
    defined = {path.stem for path in FOLDER.glob("*.py") if "\n@click.command" in path.read_text(encoding="utf-8")}
    assert defined == set(NAMES), "a command is called like its module"


@pytest.mark.parametrize("name", NAMES)
def test_a_listed_command_says_of_itself_what_the_list_says(name):
    command = import_command(name)
    assert (command.name, command.get_short_help_str()) == (
        name,
        click.Command(name, help=command_texts()[name]).get_short_help_str(),
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_an_option_is_a_phrase_of_its_own(name):
    options = [one for one in import_command(name).params if isinstance(one, click.Option)]
    helps = {one.name: (one.help or "").partition("  [")[0] for one in options}
    assert {name: text for name, text in helps.items() if not text.endswith(".") or text.split()[0] in FRAGMENTS} == {}


def test_the_help_of_a_command_is_a_sentence_with_a_verb_in_front():
    texts = {"specsim": main.help, **{name: import_command(name).help for name in NAMES}}
    heads = {name: text.partition("\n\n")[0] for name, text in texts.items()}
    assert {name: head for name, head in heads.items() if head.split()[0] in FRAGMENTS} == {}
    assert {name: text for name, text in texts.items() if not text.rstrip().endswith(".")} == {}


def test_the_list_is_that_which_click_writes(specsim):
    imported = click.Group("specsim", commands=[import_command(name) for name in NAMES])
    theirs = CliRunner().invoke(imported, ["--help"]).stdout
    assert theirs.partition("Commands:")[2].strip() in specsim("--help").stdout


@pytest.mark.parametrize("name", ["frobnicate", "output", "main", "../check", ""])
def test_other_modules_are_no_commands(specsim, name):
    assert import_command(name) is None
    got = specsim(name)
    assert got.exit_code == 2
    assert f"No such command '{name}'" in got.stderr


def test_a_command_that_is_spelt_wrongly(specsim):
    got = specsim("chek", "my_kernels")
    assert (got.exit_code, got.stdout) == (2, "")
    assert "Error: No such command 'chek'; did you mean check?\n" in got.stderr


def test_the_command_alone_prints_its_help(specsim):
    alone = specsim()
    assert (alone.exit_code, alone.stdout) == (0, specsim("--help").stdout)


def test_help_imports_no_command():
    program = (
        "import sys\n"
        "from specsim.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "assert not {'numpy', 'msgspec', 'specsim.conformance.backend', 'specsim.cli.check'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_the_group_completes_names():
    with click.Context(main) as context:
        assert [item.value for item in main.shell_complete(context, "re")] == ["replay"]
