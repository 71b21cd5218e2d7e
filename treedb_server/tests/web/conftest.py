"""The tests of the web page use what those of drivers start servers with."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "driver"))
