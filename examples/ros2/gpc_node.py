"""A ROS 2 node that decides by a running gpc serve. Not run in CI: it needs rclpy.

It takes `state` and `context` (std_msgs/Float64MultiArray, in the order of the case) and answers each state with `action`. Where the
server does not answer in time, nothing is published: let the drive stop by its own watchdog.

    gpc serve integrator-convex --listen 127.0.0.1:8080 --max-age 200ms &
    python3 gpc_node.py --ros-args -p server:=http://127.0.0.1:8080 -p deadline_ms:=20.0
"""

import json
import time
import urllib.request

import rclpy
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray


class Controller(Node):
    def __init__(self) -> None:
        super().__init__("gpc")
        self.server = self.declare_parameter("server", "http://127.0.0.1:8080").value
        self.deadline = self.declare_parameter("deadline_ms", 20.0).value
        self.context: list[float] = []
        self.action = self.create_publisher(Float64MultiArray, "action", 1)
        self.create_subscription(Float64MultiArray, "context", self.take, 1)
        self.create_subscription(Float64MultiArray, "state", self.decide, 1)  # of the newest alone

    def take(self, message: Float64MultiArray) -> None:
        self.context = list(message.data)

    def decide(self, message: Float64MultiArray) -> None:
        question = {"session": self.get_name(), "s": list(message.data), "c": self.context, "deadline_ms": self.deadline, "observed_ms": time.time() * 1e3}
        request = urllib.request.Request(f"{self.server}/v1/decide", json.dumps(question).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=2e-3 * self.deadline) as answer:
                decision = json.load(answer)
        except OSError as failed:
            self.get_logger().error(f"no decision: {failed}", throttle_duration_sec=1.0)
            return
        if decision.get("fallback"):
            self.get_logger().warning(f"the fallback acts: {decision['fallback']}", throttle_duration_sec=1.0)
        self.action.publish(Float64MultiArray(data=decision["u"]))


if __name__ == "__main__":
    rclpy.init()
    rclpy.spin(Controller())
