#!/bin/sh
# What oarsub --rate calls, as rate.sh SIZE ITERATIONS.
exec python3 -m oarpy.examples.island_optimiser.run_islands --rate "$1" "$2"
