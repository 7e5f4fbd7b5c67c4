"""Scores of images and classes: embedded rows, prepared classes, blocks, the scorer."""
