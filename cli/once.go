package cli

import "path/filepath"

// once is the error that says which entry of a list on the command line is given a second time, nil for none.
func once[T comparable](name string, entries []T) error {
	seen := map[T]bool{}
	for _, e := range entries {
		if seen[e] {
			return BadInputf("%s names %v twice: give each once", name, e)
		}
		seen[e] = true
	}
	return nil
}

// OnceFiles is once of files and folders, by their cleaned paths.
func OnceFiles(name string, paths []string) error {
	cleaned := make([]string, len(paths))
	for i, path := range paths {
		cleaned[i] = filepath.Clean(path)
	}
	return once(name, cleaned)
}
