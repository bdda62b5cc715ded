package driver

import "os"

// Binding is the environment variable that chooses how the driver is called: "purego", the
// default, or "gorgonia" for gorgonia.org/cu, in a build that has it (lab/run build-cu).
const Binding = "GPC_DRIVER"

// Find opens the driver by the binding that the environment names: through purego the library at a
// path, see Load, or through gorgonia.org/cu the one that the program is linked with, which has no
// other path than "". Another name, or a binding that the build has not, is a *BindingError.
func Find(path string) (Driver, error) {
	refuse := func(reason string) (Driver, error) {
		return nil, &BindingError{os.Getenv(Binding), reason}
	}
	switch os.Getenv(Binding) {
	case "", "purego":
		return Load(path)
	case "gorgonia":
		d := linkedDriver()
		if d == nil {
			return refuse("this build has no gorgonia.org/cu, `lab/run build-cu` makes one that has")
		}
		if path != "" {
			return refuse("it is linked with its library, and cannot open " + path)
		}
		return d, nil
	}
	return refuse("want purego or gorgonia")
}
