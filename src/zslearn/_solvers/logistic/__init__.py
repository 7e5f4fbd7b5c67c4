"""Softmax and logistic regression over paths of penalties."""
