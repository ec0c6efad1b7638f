"""The compiled core of the world, where there is a C compiler; everything works without it."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    modules = []
else:
    modules = cythonize([Extension("implicast.world._core", ["src/implicast/world/_core.pyx"])], quiet=True)
    for module in modules:
        module.optional = True  # cythonize forgets it where it was said before

setup(ext_modules=modules)
