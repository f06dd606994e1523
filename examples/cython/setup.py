from Cython.Build import cythonize
from setuptools import Extension, setup

import layoutkit

setup(
    packages=["batch"],
    ext_modules=cythonize([
        Extension(
            "batch.filters", ["batch/filters.pyx"], include_dirs=[layoutkit.get_include()],
            extra_compile_args=["-fopenmp"], extra_link_args=["-fopenmp"],
        )
    ]),
)  # fmt: skip
