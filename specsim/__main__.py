"""``python -m specsim`` is the command ``specsim``."""

from specsim.cli.main import main

if __name__ == "__main__":
    main(prog_name="specsim")
