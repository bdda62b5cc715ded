//go:build !gorgoniacu

package driver

import (
	"errors"
	"strings"
	"testing"
)

// A binding that this build has not, or that nobody has, is refused by name, and not taken for a
// missing driver.
func TestBindingsThatAreNotThere(t *testing.T) {
	for name, want := range map[string]string{"gorgonia": "lab/run build-cu", "cublas": "want purego or gorgonia"} {
		t.Setenv(Binding, name)
		_, err := Find("")
		var binding *BindingError
		if !errors.As(err, &binding) || !strings.Contains(err.Error(), Binding+"="+name+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
