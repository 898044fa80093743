#!/bin/sh
# A program whose tests behave as the file `script` in the current folder states.
. ./script
