"""The command line. Only this folder and the commands/ folders of features use Click."""
