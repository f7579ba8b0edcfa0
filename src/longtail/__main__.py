"""python -m longtail"""

from longtail.cli import main

if __name__ == "__main__":
    main()
