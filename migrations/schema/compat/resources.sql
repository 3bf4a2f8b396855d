SELECT make_compat_resources();
