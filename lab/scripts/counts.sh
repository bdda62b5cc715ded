#!/bin/sh
# What this module has, in counts: lines of Go, option types, exported names of the packages given (default: of the reports).
set -eu
cd "$(dirname "$0")/../.."
hand=$(git ls-files '*.go' | grep -v '_test\.go$' | xargs grep -L '^// Code generated')
echo "hand-written Go without tests, lines: $(cat $hand | wc -l)"
echo "tests, lines: $(git ls-files '*_test.go' | xargs cat | wc -l)"
echo "option types: $(cat $hand | grep -cE '^type [A-Za-z]*Options( |\[)')"
echo "fields of report.Records that are lists of one kind of record: $(sed -n '/^type Records struct/,/^}/p' lab/report/records.go | grep -cE '^	[A-Za-z]+ +\[\]')"
for p in "${@:-lab/report lab/publish lab/draw}"; do
	for q in $p; do
		[ -d "$q" ] || continue
		echo "$q: $(ls "$q"/*.go | grep -v '_test\.go$' | xargs cat | wc -l) lines, $(go doc -short "./$q" | grep -cE '^ *(func|type|var|const) ') exported names, a block of them once"
	done
done
