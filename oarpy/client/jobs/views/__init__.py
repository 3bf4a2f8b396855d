"""Views of several jobs together: dependencies, failures of an array, ranks, a bag, the list as it changes.

A *view* is a whole answer of ``oarstat``; lines of single jobs are made by the modules of the folder above. It imports
the packages that the folder above may import.
"""
