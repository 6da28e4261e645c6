"""Commands of the command line that need a module of their own."""
