#!/bin/sh
cd "$(dirname "$0")" || exit
sh hello.sh Ann | grep -qi '^hello' || { echo 'FAILED: no greeting'; exit 1; }
echo '1 test passed'
