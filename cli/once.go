package cli

import "path/filepath"

// unique is the error that says which entry of a list on the command line is given a second time, nil for none.
func unique[T comparable](name string, entries []T) error {
	visited := map[T]bool{}
	for _, e := range entries {
		if visited[e] {
			return BadInputf("%s names %v twice: give each once", name, e)
		}
		visited[e] = true
	}
	return nil
}

// OnceFiles is unique of files and folders, by their cleaned paths.
func OnceFiles(name string, paths []string) error {
	cleaned := make([]string, len(paths))
	for i, path := range paths {
		cleaned[i] = filepath.Clean(path)
	}
	return unique(name, cleaned)
}
