"""What pyproject.toml cannot say: every package under fuse2c, and two top-level folders that travel inside it."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["fuse2c", "fuse2c.*"]), "fuse2c._templates", "fuse2c._runtime_c"])
