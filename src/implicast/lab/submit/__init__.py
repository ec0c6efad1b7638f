"""The script that `spark-submit` is given, alone in its folder."""
