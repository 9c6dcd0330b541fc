"""The commands behind `noeta`, one file each."""
