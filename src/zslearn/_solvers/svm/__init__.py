"""Multi-class SVMs: one-versus-other squared hinge, Crammer-Singer and structured hinge."""
