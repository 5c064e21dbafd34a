import { render } from "preact";
import { App } from "./app";
import "./style.css";
import { useTheme } from "./theme";

useTheme.apply();
render(<App />, document.getElementById("app")!);
