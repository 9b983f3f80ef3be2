"""``python -m specsim.cli``."""

from specsim.cli.main import main

main(prog_name="specsim")
