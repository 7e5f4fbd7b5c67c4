"""ν-SVR: paths over (C, ν) and interpolation, steps of pairs, and batches on a GPU."""
