"""The compiled core of the world, where there is a C compiler; everything works without it."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    modules = []
else:
    core = Extension("implicast.world._core", ["src/implicast/world/_core.pyx"], optional=True)
    modules = cythonize([core], quiet=True)

setup(ext_modules=modules)
