"""Tests of pawl.py against a real server at PAWL_URL: `python3 -m unittest discover -t . -s tests -v` in the folder above."""
