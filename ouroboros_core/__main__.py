"""python -m ouroboros_core"""

import sys

from ouroboros_core.cli import main

sys.exit(main())
