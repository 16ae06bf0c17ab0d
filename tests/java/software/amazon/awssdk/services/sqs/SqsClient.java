package software.amazon.awssdk.services.sqs;

import java.util.function.Consumer;

/** Stands in for the SDK's client where docs/message.md's example is tried: prints what is sent. */
public final class SqsClient implements AutoCloseable {
    /** What the example sets of a request. */
    public static final class Request {
        private String url;
        private String body;

        public Request queueUrl(String queueUrl) {
            url = queueUrl;
            return this;
        }

        public Request messageBody(String messageBody) {
            body = messageBody;
            return this;
        }
    }

    private SqsClient() {}

    public static SqsClient create() {
        return new SqsClient();
    }

    public void sendMessage(Consumer<Request> fill) {
        Request request = new Request();
        fill.accept(request);
        System.out.println(request.url);
        System.out.println(request.body);
    }

    @Override
    public void close() {}
}
