"""Numerical solvers with certificates: each returns a duality gap or an optimality residual.

Private; :mod:`zslearn.solvers` shows the entry points. ν-SVR (`nu_svr`), multi-class SVMs (`svm`),
logistic and softmax regression (`_logistic`), least squares on the simplex (`_simplex`) and Platt's
scaling (`_platt`). They know arrays and rows in blocks, and nothing of classes or signatures.
"""
