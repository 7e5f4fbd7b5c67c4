"""ν-SVR: one problem, paths over (C, ν), and batches on a GPU."""
