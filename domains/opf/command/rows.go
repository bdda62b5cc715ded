package command

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// eachRow visits the words of every line of a file, what follows # left aside. want says what the path may be
// besides.
func eachRow(path, want string, visit func(words []string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: want %s", err, want)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for at := 1; lines.Scan(); at++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if err := visit(words); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, at, err)
		}
	}
	return lines.Err()
}

// inService is which of the branches or units in service is a row of the file's table, from 1. rows are theirs, from 0.
func inService(what, row string, rows []int) (int, error) {
	number, err := strconv.Atoi(row)
	at := slices.Index(rows, number-1)
	if err != nil || at < 0 {
		return 0, fmt.Errorf("no %s in service is row %s of its table", what, row)
	}
	return at, nil
}
