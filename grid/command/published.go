package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// publishedTable is the file of PGLib with the published values of its networks.
const publishedTable = "BASELINE.md"

// publishedValue is the published value of a network.
type publishedValue struct {
	objective float64  // $/h
	seconds   *float64 // nil where it says less than one
}

// readPublished reads tables of published optima in Markdown, with a column "Case Name" and one that starts with "AC
// ($/h)", as in PGLib-OPF.
func readPublished(path string) (map[string]publishedValue, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values, err := parsePublished(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return values, nil
}

func parsePublished(r io.Reader) (map[string]publishedValue, error) {
	out := map[string]publishedValue{}
	name, objective, seconds := -1, -1, -1
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(line, "|") {
			name = -1
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.ReplaceAll(cells[i], `\$`, "$"), " *")
		}
		if name < 0 {
			objective, seconds = -1, -1
			for i, c := range cells {
				switch {
				case c == "Case Name":
					name = i
				case strings.HasPrefix(c, "AC ($/h)"):
					objective = i
				case strings.HasPrefix(c, "AC Time"):
					seconds = i
				}
			}
			continue
		}
		if objective < 0 || len(cells) <= max(name, objective) || strings.Trim(cells[0], "-: ") == "" {
			continue
		}
		v, err := strconv.ParseFloat(cells[objective], 64)
		if err != nil {
			if strings.Trim(cells[objective], "-–. naif") == "" { // none is published
				continue
			}
			return nil, fmt.Errorf("line %d: objective %q of %s is not a number", n, cells[objective], cells[name])
		}
		value := publishedValue{objective: v}
		if seconds >= 0 && seconds < len(cells) {
			if s, err := strconv.ParseFloat(cells[seconds], 64); err == nil {
				value.seconds = &s
			}
		}
		out[cells[name]] = value
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf(`no table with the columns "Case Name" and "AC ($/h)"`)
	}
	return out, nil
}
