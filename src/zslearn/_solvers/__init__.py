"""Numerical solvers with certificates: each returns a duality gap or an optimality residual.

Private; :mod:`zslearn.solvers` shows the entry points. ν-SVR (`nu_svr`), multi-class SVMs (`svm`),
logistic and softmax regression (`_logistic`), least squares on the simplex (`_simplex`) and Platt's
scaling (`_platt`). They depend on arrays and rows in blocks, but not on classes or signatures.
"""
