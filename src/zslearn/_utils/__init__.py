"""Tools that know nothing of zero-shot learning: arrays, blocks, files, messages."""
