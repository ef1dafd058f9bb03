"""Memory of a GPU as arrays of other libraries, and their arrays as memory of a GPU."""
