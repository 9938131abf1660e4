"""The program for spark-submit: the command `hwmark`, whichever Python the environment has."""

from hwmark.__main__ import main

main()
