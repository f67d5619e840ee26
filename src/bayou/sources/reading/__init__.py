"""From files to blocks of bytes, and from blocks, in order, to what they held."""
